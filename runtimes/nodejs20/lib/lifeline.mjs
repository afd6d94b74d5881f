// The pipe that tells when the server is gone.
import net from 'node:net';

import { WrongEnvironment } from './settings.mjs';

/** Kills the own process group at the end of the pipe whose read end is `fd`: what the handler started goes with it. */
export function watchLifeline(fd) {
  const end = () => process.kill(0, 'SIGKILL');
  let pipe;
  try {
    pipe = new net.Socket({ fd, readable: true, writable: false });
  } catch (error) {
    throw new WrongEnvironment(`SLESS_LIFELINE_FD ${fd} cannot be read: ${error.message}`);
  }
  pipe.on('end', end);
  pipe.on('error', end);
  pipe.resume();
  pipe.unref();
}
