// The list of a namespace.
import '../core/frame.js';
