// versitygw, an S3 server that keeps objects as files. `node test/servers/versitygw.mjs` runs one until it is interrupted.
import { execFile, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import { freePort, serveShell, Server } from './server.mjs';

const VERSION = '1.8.0';
const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'load-data-service');
const HOME = join(CACHE, `versitygw-${VERSION}`);
const BINARY = join(HOME, 'versitygw');

process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true';

class Versitygw extends Server {
  accessKeyId = 'load-data';
  secretAccessKey = 'load-data-secret';
  region = 'us-east-1';

  environment(bucket) {
    return {
      S3_BUCKET: bucket,
      S3_ENDPOINT: this.endpoint,
      S3_REGION: this.region,
      S3_FORCE_PATH_STYLE: 'true',
      AWS_ACCESS_KEY_ID: this.accessKeyId,
      AWS_SECRET_ACCESS_KEY: this.secretAccessKey,
    };
  }

  async createBucket(name) {
    const { endpoint, region, accessKeyId, secretAccessKey } = this;
    const client = new S3Client({ endpoint, region, forcePathStyle: true, credentials: { accessKeyId, secretAccessKey } });
    try {
      await client.send(new CreateBucketCommand({ Bucket: name }));
    } finally {
      client.destroy();
    }
  }

  async createUser(name, secret) {
    const { endpoint, region, accessKeyId, secretAccessKey } = this;
    const admin = ['admin', '--endpoint-url', endpoint, '--region', region, '--access', accessKeyId, '--secret', secretAccessKey];
    await promisify(execFile)(BINARY, [...admin, 'create-user', '--access', name, '--secret', secret, '--role', 'user']);
  }
}

/** Whether versitygw is available here: it is installed, or Go exists to install it. */
export const isVersitygwAvailable = () => existsSync(BINARY) || spawnSync('go', ['version']).status === 0;

/**
 * Installs versitygw outside the repository unless it is installed. Takes a minute or two, and needs the network. Rejects
 * if Go is missing, and with its output if the installation fails.
 */
export async function installVersitygw() {
  if (existsSync(BINARY)) return;
  if (!isVersitygwAvailable()) throw new Error(`versitygw ${VERSION} is not installed, and there is no Go to install it with.`);
  console.error(`Installing versitygw ${VERSION}, which takes a minute or two.`);
  await mkdir(CACHE, { recursive: true });
  const fresh = await mkdtemp(`${HOME}.`);
  try {
    const env = { ...process.env, GOBIN: fresh, CGO_ENABLED: '0' };
    await promisify(execFile)('go', ['install', `github.com/versity/versitygw/cmd/versitygw@v${VERSION}`], { env });
    await rename(fresh, HOME);
  } catch (error) {
    // Another process may have been faster.
    if (!existsSync(BINARY)) throw error;
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

/**
 * Starts a versitygw, and installs it first if needed. Rejects if it isn't available or doesn't start. Its directory
 * must be on a file system with extended attributes.
 *
 * @param {{ iam?: boolean, log?: (text: string) => void }} [options]
 * @returns {Promise<import('./versitygw.mjs').Versitygw>}
 */
export async function startVersitygw({ iam = false, log } = {}) {
  await installVersitygw();
  const port = await freePort();
  const server = new Versitygw('versitygw', port, log);
  const { region, accessKeyId, secretAccessKey, directory } = server;
  const users = iam ? ['--iam-dir', await mkdtemp(join(directory, '.users-'))] : [];
  await server.start(BINARY, ['--port', `127.0.0.1:${port}`, '--region', region, '--keep-alive', ...users, 'posix', directory], {
    ROOT_ACCESS_KEY_ID: accessKeyId,
    ROOT_SECRET_ACCESS_KEY: secretAccessKey,
  });
  return server;
}

if (process.argv[1] === import.meta.filename) {
  await serveShell(async () => {
    const server = await startVersitygw();
    const bucket = 'load-data';
    await server.createBucket(bucket);
    return { server, variables: server.environment(bucket) };
  });
}
