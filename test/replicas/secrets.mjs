import { EventReceiver, newSecret } from '../crash/event-receiver.mjs';
import { restartEach } from './replica.mjs';

/** Another replica takes over within a minute, and then delivers what has waited. */
const DELIVERED_WITHIN_MS = 180_000;

/**
 * The secrets that all replicas have, and their replacement as docs/replacing-secrets.md describes: the credentials of
 * the bucket, the client in Keycloak, and the secret of a webhook.
 */
export class Secrets {
  #number = 0;
  #store;
  #realm;
  #receiver;
  #current;

  /** Creates the first secrets, and starts the webhook. `store`: what `withBucket` gives, with users (`iam`). */
  static async create(store, realm) {
    const secrets = new Secrets();
    secrets.#store = store;
    secrets.#realm = realm;
    secrets.#receiver = await EventReceiver.start();
    secrets.#current = await secrets.#add();
    secrets.#receiver.secret = secrets.#current.EVENTS_WEBHOOK_SECRET;
    return secrets;
  }

  get variables() {
    return { ...this.#receiver.variables, ...this.#current };
  }

  /**
   * Replaces all secrets, in several rounds. The webhook accepts one secret at a time.
   *
   * @param {import('./replica.mjs').Replica[]} replicas have `variables`
   * @returns {AsyncGenerator<{ from: number, to: number }>} see `restarts`
   */
  async *replace(replicas, rounds) {
    const restart = (variables) => {
      for (const replica of replicas) Object.assign(replica.variables, variables);
      return restartEach(replicas, 'SIGTERM');
    };
    for (let round = 0; round < rounds; round++) {
      const old = this.#current;
      const fresh = (this.#current = await this.#add());
      yield* restart({ ...fresh, EVENTS_WEBHOOK_SECRET: `${fresh.EVENTS_WEBHOOK_SECRET} ${old.EVENTS_WEBHOOK_SECRET}` });
      this.#receiver.secret = fresh.EVENTS_WEBHOOK_SECRET;
      await this.#remove(old);
      yield* restart(fresh);
    }
  }

  /**
   * Waits until the webhook got the events of these uploads.
   *
   * @returns {Promise<{ requests: number, refused: number, events: number, lost: number, twice: number, findings:
   *   string[] }>} the numbers of deliveries, of those that the webhook refused, of events that were delivered,
   *   never delivered and delivered twice; a sentence about each that is wrong
   */
  async deliveries(ids) {
    const undelivered = await this.#receiver.undelivered(ids, DELIVERED_WITHIN_MS);
    const { deliveries, refused, delivered, deliveredTwice, findings } = this.#receiver;
    return { requests: deliveries, refused, events: delivered, lost: undelivered.length, twice: deliveredTwice, findings: [...findings, ...undelivered] };
  }

  close() {
    this.#receiver.close();
  }

  async #add() {
    const { server, bucket } = this.#store;
    const name = `load-data-service-${++this.#number}`;
    const secret = `${name}-secret`;
    await server.createUser(name, secret);
    await server.allowOnly([this.#current?.AWS_ACCESS_KEY_ID, name].filter(Boolean), bucket);
    return {
      AWS_ACCESS_KEY_ID: name,
      AWS_SECRET_ACCESS_KEY: secret,
      KEYCLOAK_CLIENT_ID: name,
      KEYCLOAK_CLIENT_SECRET: await this.#realm.addClient(name),
      EVENTS_WEBHOOK_SECRET: newSecret(),
    };
  }

  async #remove({ AWS_ACCESS_KEY_ID: user, KEYCLOAK_CLIENT_ID: client }) {
    await this.#store.server.deleteUser(user);
    await this.#realm.removeClient(client);
  }
}
