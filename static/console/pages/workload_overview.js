// The overview of one function, service or job.
import '../core/frame.js';
