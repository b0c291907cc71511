// Installs and starts versitygw, an S3 server that keeps objects as files. `node test/servers/versitygw.mjs` runs one
// until it is interrupted.
import { execFile } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CreateBucketCommand, PutBucketPolicyCommand, PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { GoProgram } from './go-program.mjs';
import { freePort, serveShell, Server } from './server.mjs';

const PROGRAM = new GoProgram('versitygw', '1.8.0', 'github.com/versity/versitygw/cmd/versitygw');

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

  createBucket(name) {
    return this.#send(new CreateBucketCommand({ Bucket: name }));
  }

  replaceObjects(bucket, objects) {
    return this.#withClient(async (client) => {
      for (const [key, bytes] of objects) await client.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: bytes }));
    });
  }

  createUser(name, secret) {
    return this.#administer('create-user', '--access', name, '--secret', secret, '--role', 'user');
  }

  deleteUser(name) {
    return this.#administer('delete-user', '--access', name);
  }

  allowOnly(names, bucket) {
    const Resource = [`arn:aws:s3:::${bucket}`, `arn:aws:s3:::${bucket}/*`];
    const Statement = [{ Effect: 'Allow', Principal: { AWS: names }, Action: 's3:*', Resource }];
    return this.#send(new PutBucketPolicyCommand({ Bucket: bucket, Policy: JSON.stringify({ Version: '2012-10-17', Statement }) }));
  }

  #send(command) {
    return this.#withClient((client) => client.send(command));
  }

  async #withClient(work) {
    const { endpoint, region, accessKeyId, secretAccessKey } = this;
    const client = new S3Client({ endpoint, region, forcePathStyle: true, credentials: { accessKeyId, secretAccessKey } });
    try {
      await work(client);
    } finally {
      client.destroy();
    }
  }

  async #administer(...command) {
    const { endpoint, region, accessKeyId, secretAccessKey } = this;
    const admin = ['admin', '--endpoint-url', endpoint, '--region', region, '--access', accessKeyId, '--secret', secretAccessKey];
    await promisify(execFile)(PROGRAM.binary, [...admin, ...command]);
  }
}

export const isVersitygwAvailable = () => PROGRAM.isAvailable;

export const installVersitygw = () => PROGRAM.install();

/**
 * Starts a versitygw, and installs versitygw before if needed. Rejects if it isn't available or doesn't start. Its data
 * directory must be on a file system with extended attributes.
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
  await server.start(PROGRAM.binary, ['--port', `127.0.0.1:${port}`, '--region', region, '--keep-alive', ...users, 'posix', directory], {
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
