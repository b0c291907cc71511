import { z } from 'zod';

const SECRET_PREFIX = 'whsec_';
const [MIN_SECRET_BYTES, MAX_SECRET_BYTES] = [24, 64];

/** Decodes a webhook secret, in the form of Standard Webhooks. Returns undefined if it is invalid. */
function secretBytes(text: string): Buffer | undefined {
  const bytes = Buffer.from(text.slice(SECRET_PREFIX.length), 'base64');
  const isCanonical = `${SECRET_PREFIX}${bytes.toString('base64')}` === text;
  return isCanonical && bytes.length >= MIN_SECRET_BYTES && bytes.length <= MAX_SECRET_BYTES ? bytes : undefined;
}

function isWebhookUrl(text: string): boolean {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text) || text.includes('#')) return false;
  const { username, password } = new URL(text);
  return isPercentEncoded(username) && isPercentEncoded(password);
}

/** Checks what `URL` doesn't: that each `%` begins a valid escape, and that the escaped bytes are valid UTF-8. */
function isPercentEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

export const EVENTS_NAMES = ['EVENTS_WEBHOOK_URL', 'EVENTS_WEBHOOK_SECRET'];

export const EVENTS_VARIABLES = z
  .object({
    EVENTS_WEBHOOK_URL: z.string().refine(isWebhookUrl, 'must be an http or https URL without fragment, with % as %25 in its user and password').optional(),
    EVENTS_WEBHOOK_SECRET: z
      .string()
      .transform((text, context) => {
        const secrets = text.trim().split(/\s+/).map(secretBytes).filter((secret) => secret !== undefined);
        const isValid = secrets.length === text.trim().split(/\s+/).length && secrets.length <= 2;
        if (!isValid) context.addIssue({ code: 'custom', message: `must be ${SECRET_PREFIX} and the base64 of ${MIN_SECRET_BYTES} to ${MAX_SECRET_BYTES} bytes, or two such secrets separated by a blank` });
        return secrets;
      })
      .optional(),
  })
  .superRefine(({ EVENTS_WEBHOOK_URL: url, EVENTS_WEBHOOK_SECRET: secret }, context) => {
    if (url !== undefined && secret === undefined) context.addIssue({ code: 'custom', path: ['EVENTS_WEBHOOK_SECRET'], message: 'must be set where EVENTS_WEBHOOK_URL is' });
  })
  .transform(({ EVENTS_WEBHOOK_URL: url, EVENTS_WEBHOOK_SECRET: secrets = [] }) => (url === undefined ? undefined : { url, secrets }));

export type WebhookEnvironment = NonNullable<z.infer<typeof EVENTS_VARIABLES>>;
