import bucketNetwork from './bucket-network.mjs';
import bucketOutage from './bucket-outage.mjs';
import clock from './clock.mjs';
import damagedClaim from './damaged-claim.mjs';
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
 * @typedef {object} Action one kind of fault of the service (an exclusive action), or one kind of behaviour of its
 *   clients
 * @property {string} name
 * @property {boolean} [isExclusive] whether the action never runs at the same time as another exclusive action
 * @property {string} [needs] the name of a property that the world must have for this action, such as `volume`
 * @property {(random: import('../../../dist/testing/random.js').Random) => object} plan makes all random choices before
 *   any action of the history runs
 * @property {(plan: object, world: object) => string} title describes the plan
 * @property {(world: object, plan: object, tools: { random: object, replica: () => import('../world.mjs').Replica }) =>
 *   Promise<void> | void} run carries out the plan
 */

const CLIENTS = [keysAtOnce, keysAgain, slowUploads, hangUps, silentConnections];

/**
 * The actions that histories with each kind of store can have.
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
  s3: [...CLIENTS, quiet, bucketNetwork, bucketOutage, replicaRestart, replicaPause, replicaClock, damagedClaim],
};
