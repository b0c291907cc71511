import bucketNetwork from './bucket-network.mjs';
import bucketOutage from './bucket-outage.mjs';
import clock from './clock.mjs';
import damagedKeys from './damaged-keys.mjs';
import failingDisk from './failing-disk.mjs';
import fewDescriptors from './few-descriptors.mjs';
import foreignFiles from './foreign-files.mjs';
import fullDisk from './full-disk.mjs';
import hangUps from './hang-ups.mjs';
import hostileBodies from './hostile-bodies.mjs';
import identityAway from './identity-away.mjs';
import keysAgain from './keys-again.mjs';
import keysAtOnce from './keys-at-once.mjs';
import lockFiles from './lock-files.mjs';
import midnight from './midnight.mjs';
import partAway from './part-away.mjs';
import quiet from './quiet.mjs';
import readOnly from './read-only.mjs';
import replicaClock from './replica-clock.mjs';
import replicaPause from './replica-pause.mjs';
import replicaRestart from './replica-restart.mjs';
import { kill, stop } from './restart.mjs';
import silentConnections from './silent-connections.mjs';
import slowUploads from './slow-uploads.mjs';
import volumeAway from './volume-away.mjs';

/**
 * @typedef {object} Action one kind of fault of the service, or of behaviour of its clients
 * @property {string} name
 * @property {boolean} [isExclusive] does not run at the same time as another exclusive action
 * @property {string} [needs] a property that the world must have, such as `volume`
 * @property {(random: import('../../../dist/testing/random.js').Random) => object} plan makes all choices before
 *   anything runs
 * @property {(plan: object, world: object) => string} title describes the plan
 * @property {(world: object, plan: object, tools: { random: object, replica: () => import('../world.mjs').Replica }) =>
 *   Promise<void> | void} run
 */

const CLIENTS = [keysAtOnce, keysAgain, slowUploads, hangUps, silentConnections];

/**
 * The actions for each store.
 *
 * @type {Record<string, Action[]>}
 */
export const ACTIONS = {
  disk: [
    ...CLIENTS,
    hostileBodies,
    quiet,
    kill,
    stop,
    clock,
    midnight,
    damagedKeys,
    foreignFiles,
    volumeAway,
    partAway,
    identityAway,
    lockFiles,
    failingDisk,
    fullDisk,
    fewDescriptors,
    readOnly,
  ],
  s3: [...CLIENTS, quiet, bucketNetwork, bucketOutage, replicaRestart, replicaPause, replicaClock],
};
