// Preloaded into the service (`node --import`), in each of its threads. Makes file operations below DATA_DIR fail,
// makes flushes or removals do nothing, or kills the process at an operation. The variable DISK_FAULTS contains the
// faults as JSON.
import childProcess from 'node:child_process';
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { fileURLToPath } from 'node:url';
import { threadId } from 'node:worker_threads';
import { Random } from '../../dist/testing/random.js';

const WRITES = ['write', 'writev'];
const FLUSHES = ['fsync', 'fdatasync', 'sync', 'datasync'];
const REMOVALS = ['unlink', 'rm'];
const OTHERS = [...REMOVALS, 'open', 'mkdir', 'rename', 'symlink', 'truncate', 'ftruncate', 'readdir', 'readlink'];

/**
 * @typedef {object} DiskFaults
 * @property {boolean} [ignoreFlushes] whether flushes report success and do nothing
 * @property {string} [unremovable] a folder in DATA_DIR: removing a file below it reports success and does nothing
 * @property {number} [killAfter] the number of file operations that succeed. The next one kills the process
 * @property {string} [while] the path of a file. The faults that the following properties describe happen only while
 *   this file exists
 * @property {string} [code] the error code of a failing operation
 * @property {('write' | 'flush')[]} [failing] the kinds of operations that can fail
 * @property {number} [probability] the probability that an operation of these kinds fails, from 0 to 1
 * @property {number} [seed] the seed of the random choice of the operations that fail
 */

/** @type {DiskFaults} */
const faults = JSON.parse(process.env.DISK_FAULTS);
const random = new Random(faults.seed + threadId);
const DONE = Symbol('done');
let operations = 0;

function fateOf(method, [path]) {
  if (faults.killAfter !== undefined && operations++ >= faults.killAfter) process.kill(process.pid, 'SIGKILL');
  const operation = WRITES.includes(method) ? 'write' : FLUSHES.includes(method) ? 'flush' : 'other';
  if (faults.ignoreFlushes && operation === 'flush') return DONE;
  if (faults.unremovable && REMOVALS.includes(method) && String(path).startsWith(`${process.env.DATA_DIR}/${faults.unremovable}/`)) return DONE;
  if (!faults.failing?.includes(operation) || !random.chance(faults.probability) || !fs.existsSync(faults.while)) return undefined;
  return Object.assign(new Error(`${faults.code}: injected, ${method}`), { code: faults.code, syscall: method });
}

const isInStore = ([first, ...others]) =>
  typeof first === 'number' ? first > 2 : [first, ...others].some((path) => String(path).startsWith(process.env.DATA_DIR));

function wrap(object, name, method, isOurs, settle) {
  const original = object[name];
  if (!original) return;
  function wrapped(...parameters) {
    const fate = isOurs(parameters) ? fateOf(method, parameters) : undefined;
    return fate === undefined ? original.apply(this, parameters) : settle(fate, parameters);
  }
  // The properties of the original function are copied, because util.promisify uses them.
  object[name] = Object.defineProperties(wrapped, Object.getOwnPropertyDescriptors(original));
}

const promise = (fate) => (fate === DONE ? Promise.resolve() : Promise.reject(fate));
const callback = (fate, parameters) => process.nextTick(parameters.at(-1), fate === DONE ? null : fate);
const sync = (fate) => {
  if (fate !== DONE) throw fate;
};

const handle = await fs.promises.open(fileURLToPath(import.meta.url));
const FileHandle = Object.getPrototypeOf(handle);
await handle.close();
for (const method of [...WRITES, ...FLUSHES, ...OTHERS]) {
  wrap(FileHandle, method, method, () => true, promise);
  wrap(fs.promises, method, method, isInStore, promise);
  wrap(fs, method, method, isInStore, callback);
  wrap(fs, `${method}Sync`, method, isInStore, sync);
}

// Some flushes aren't a call of their own: those that O_DSYNC causes on each write, and those of a whole file system,
// which the service starts as a command.
const { O_DSYNC } = fs.constants;
const synchronized = new WeakSet();
const { open } = fs.promises;
fs.promises.open = async (path, flags, ...others) => {
  const isSynchronized = typeof flags === 'number' && (flags & O_DSYNC) === O_DSYNC;
  const opened = await open(path, isSynchronized && faults.ignoreFlushes ? flags & ~O_DSYNC : flags, ...others);
  if (isSynchronized) synchronized.add(opened);
  return opened;
};
for (const method of WRITES) {
  const write = FileHandle[method];
  FileHandle[method] = async function (...parameters) {
    const written = await write.apply(this, parameters);
    const fate = synchronized.has(this) ? fateOf('datasync', []) : undefined;
    if (fate !== undefined && fate !== DONE) throw fate;
    return written;
  };
}
if (faults.ignoreFlushes) childProcess.execFile = (...parameters) => process.nextTick(parameters.at(-1), null);
syncBuiltinESMExports();
