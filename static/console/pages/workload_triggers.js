// The triggers of one function or service.
import '../core/frame.js';
import '../core/trigger_table.js';
import { watch } from '../core/watch.js';

watch();
