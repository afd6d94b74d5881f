// Starts the Node runtime; ../README.md is its contract.
import { main } from './lib/main.mjs';

main();
