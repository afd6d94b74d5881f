// All triggers of a namespace.
import '../core/frame.js';
import '../core/trigger_table.js';
