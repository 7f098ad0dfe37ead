import { testScenarios } from "../conformance/scenarios.ts";

testScenarios("nft");
