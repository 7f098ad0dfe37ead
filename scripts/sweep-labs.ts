/** Removes the namespaces that test processes left which are gone: `node scripts/sweep-labs.ts`. */
import { sweepLabs } from "../test/kit/lab-sweep.ts";

const swept = sweepLabs();
if (swept.length > 0) console.log(`Removed what dead test processes left: ${swept.join(", ")}`);
