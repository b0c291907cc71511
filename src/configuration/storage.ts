import { z } from 'zod';
import { httpUrl, MAX_TIMEOUT_MS, oneOf, plainText, required, whole } from './variables.js';

const text = (pattern: RegExp, message: string) => z.string().regex(pattern, message);

/** How long a call to the object store may go without progress. */
const TIMEOUT = { STORAGE_TIMEOUT_MS: whole(30_000, 1, MAX_TIMEOUT_MS) };

/** Variables that the SDK reads too, but only in the process's environment: it knows neither `.env` nor files of secrets. */
const AWS_VARIABLES = {
  AWS_ACCESS_KEY_ID: plainText.optional(),
  AWS_SECRET_ACCESS_KEY: plainText.optional(),
  AWS_SESSION_TOKEN: plainText.optional(),
  AWS_PROFILE: plainText.optional(),
};
type AwsVariables = { readonly [name in keyof typeof AWS_VARIABLES]?: string | undefined };

const S3_VARIABLES = z
  .object({
    ...TIMEOUT,
    ...AWS_VARIABLES,
    S3_BUCKET: required,
    S3_PREFIX: text(/^(?!\/)(?!.*\/\/)(?!(?:.*\/)?\.{1,2}(?:\/|$))[A-Za-z0-9._=/-]+$/, 'must be letters, digits and . _ = - with single slashes between, and no part of it . or ..').optional(),
    S3_REGION: text(/^[A-Za-z0-9-]+$/, 'must be the name of a region').optional(),
    S3_ENDPOINT: httpUrl.optional(),
    S3_FORCE_PATH_STYLE: oneOf('true', 'false').default('false'),
  })
  .superRefine(({ AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret }, context) => {
    const missing = id === undefined ? 'AWS_ACCESS_KEY_ID' : 'AWS_SECRET_ACCESS_KEY';
    if ((id === undefined) !== (secret === undefined)) context.addIssue({ code: 'custom', path: [missing], message: 'must be set, because the other half of the key is' });
  })
  .transform((found) => ({
    adapter: 's3' as const,
    bucket: found.S3_BUCKET,
    /** The S3_PREFIX: empty, or with a trailing and no leading slash. */
    prefix: found.S3_PREFIX === undefined ? '' : `${found.S3_PREFIX.replace(/\/$/, '')}/`,
    region: found.S3_REGION,
    endpoint: found.S3_ENDPOINT,
    forcePathStyle: found.S3_FORCE_PATH_STYLE === 'true',
    timeoutMs: found.STORAGE_TIMEOUT_MS,
    ...credentialsOf(found),
  }));

/** The profile if one is named, as the SDK prefers it; otherwise the key in the variables. Without either, the SDK finds one. */
function credentialsOf({ AWS_PROFILE: profile, AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, AWS_SESSION_TOKEN: sessionToken }: AwsVariables) {
  if (profile !== undefined) return { profile };
  if (accessKeyId === undefined || secretAccessKey === undefined) return {};
  return { credentials: { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) } };
}

const ONE_ACCOUNT = 'must be set, or AZURE_STORAGE_ACCOUNT_URL, and not both';

const AZURE_VARIABLES = z
  .object({
    ...TIMEOUT,
    AZURE_STORAGE_CONTAINER: required,
    AZURE_STORAGE_CONNECTION_STRING: plainText.optional(),
    AZURE_STORAGE_ACCOUNT_URL: httpUrl.optional(),
  })
  .transform((found, context) => {
    const { AZURE_STORAGE_CONNECTION_STRING: connectionString, AZURE_STORAGE_ACCOUNT_URL: url } = found;
    if ((connectionString === undefined) === (url === undefined)) {
      context.addIssue({ code: 'custom', path: ['AZURE_STORAGE_CONNECTION_STRING'], message: ONE_ACCOUNT });
    }
    return {
      adapter: 'azure' as const,
      container: found.AZURE_STORAGE_CONTAINER,
      account: connectionString === undefined ? { url: url ?? '' } : { connectionString },
      timeoutMs: found.STORAGE_TIMEOUT_MS,
    };
  });

export const FILE_STORAGES = { local: z.object({}).transform(() => ({ adapter: 'local' as const })), s3: S3_VARIABLES, azure: AZURE_VARIABLES };

export type BucketEnvironment = z.infer<typeof S3_VARIABLES | typeof AZURE_VARIABLES>;
