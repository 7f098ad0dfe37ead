import { afterAll } from "vitest";
import { closeSpareLabs } from "./spare-labs.ts";

// vitest runs this file before each file of integration tests.
afterAll(closeSpareLabs);
