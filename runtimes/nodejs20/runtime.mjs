// Starts the Node runtime; see ../README.md for the contract it keeps.
import { main } from './lib/main.mjs';

main();
