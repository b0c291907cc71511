import { mkdir } from 'node:fs/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Workspace } from '../support/process.js';

const BUCKET = { S3_BUCKET: 'load-data', S3_REGION: 'us-east-1', S3_ENDPOINT: 'http://127.0.0.1:9' };
const TO_S3 = ['--to', 's3'];

describe('npm run move:store', () => {
  let workspace: Workspace;
  beforeEach(async () => {
    workspace = await Workspace.create();
  });
  afterEach(() => workspace.dispose());

  it.each<[string, string[], Record<string, string>, RegExp]>([
    ['no bucket is named', [], BUCKET, /^--to must be s3 or azure \(usage: .*\)\n$/],
    ['the bucket is of another kind', ['--to', 'local'], BUCKET, /^--to must be s3 or azure \(usage: .*\)\n$/],
    ['there is an extra argument', [...TO_S3, 'uploads'], BUCKET, /^Unexpected argument 'uploads'.*\(usage: .*\)\n$/],
    ['a variable of the bucket is missing', TO_S3, {}, /^S3_BUCKET: must be set\n$/],
    ['DATA_DIR has no store', TO_S3, BUCKET, /^There is no store in \S+: set DATA_DIR to that of the service\.\n$/],
  ])('ends with 2 and one line when %s', async (_, parameters, variables, message) => {
    await mkdir(workspace.data);
    const { code, stdout, stderr } = await workspace.moveStore(parameters, variables);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toMatch(message);
  });
});
