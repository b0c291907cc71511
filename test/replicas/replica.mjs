import { resolve } from 'node:path';

/** One of the processes that share the bucket, at a port that it keeps. */
export class Replica {
  constructor(services, variables) {
    this.services = services;
    this.variables = variables;
  }

  get port() {
    return Number(this.variables.PORT);
  }

  async start(program = resolve('dist/main.js')) {
    this.services.program = program;
    this.isOther = program !== resolve('dist/main.js');
    this.service = await this.services.start(this.variables);
  }

  end(signal) {
    return this.service.end(signal);
  }
}

/**
 * @typedef {object} Restart
 * @property {number} from when the replica was ended, by `performance.now()`
 * @property {number} to when it had ended. Between the two, requests that were in flight may have failed
 * @property {boolean} [endedOther] whether it was another version of the service that ended
 */

/**
 * Ends each replica with a signal and starts it again, one after another, several times round.
 *
 * @param {NodeJS.Signals} signal
 * @param {number} rounds
 * @param {(round: number) => string | undefined} program the other version to start in a round; undefined: this one
 * @returns {(replicas: Replica[]) => AsyncGenerator<Restart>} yields after each restart
 */
export const restarts = (signal, rounds, program = () => undefined) =>
  async function* restart(replicas) {
    for (let round = 0; round < rounds; round++) yield* restartEach(replicas, signal, program(round));
  };

export async function* restartEach(replicas, signal, program) {
  for (const replica of replicas) {
    const [from, endedOther] = [performance.now(), replica.isOther];
    await replica.end(signal);
    const to = performance.now();
    await replica.start(program);
    yield { from, to, endedOther };
  }
}
