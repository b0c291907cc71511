import { Agent } from 'node:http';

/**
 * An HTTP agent that ignores late errors of connections. Node removes its own error listener from a connection when the
 * answer arrives before the request is written. A connection error a moment later, for example when the service is
 * killed, would then end this process. The request itself reports the end of its connection, too.
 */
export class ListeningAgent extends Agent {
  createConnection(...parameters) {
    return super.createConnection(...parameters).on('error', () => undefined);
  }
}
