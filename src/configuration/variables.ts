import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { z } from 'zod';
import { hasCode } from '../common/error-code.js';
import { oneLine } from '../common/text.js';
import { readSecretFiles } from './secret-files.js';

export type Variables = Readonly<Record<string, string | undefined>>;

/**
 * Environment variables are invalid, or can't be read. Each problem is one line, and may quote the beginning of a value
 * that doesn't look like a secret.
 */
export class EnvironmentError extends Error {
  constructor(readonly problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'EnvironmentError';
  }
}

export const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** A schema for a whole number within bounds; `fallback` if the variable is unset. */
export function whole(fallback: number, least: number, most: number) {
  const message = `must be a whole number from ${least} to ${most}`;
  return z
    .string()
    .regex(/^\d{1,16}$/, message)
    .transform(Number)
    .pipe(z.number().min(least, message).max(most, message))
    .default(fallback);
}

export function oneOf<const Names extends readonly string[]>(...names: Names) {
  return z.enum(names, `must be ${names.map((name) => `"${name}"`).join(' or ')}`);
}

const withoutControls = (text: z.ZodString) => text.regex(/^\P{Cc}*$/u, { error: 'must not contain line breaks or other control characters', abort: true });

/**
 * A schema of text without control characters. A line break at the end, common in Kubernetes secrets, would otherwise
 * be noticed only when the text is used.
 */
export const plainText = withoutControls(z.string());

export const required = withoutControls(z.string({ error: ({ input }) => (input === undefined ? 'must be set' : undefined) }));

// The class `URL` accepts blanks, line breaks and backslashes, but drops or changes them. The service uses the text
// itself, not the result of `URL`, so the text must not contain them.
export const httpUrl = z.string().refine((text) => {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text) || /[?#\s\p{Cc}\\]/u.test(text)) return false;
  const url = new URL(text);
  return url.username === '' && url.password === '';
}, 'must be an http or https URL without user, query, fragment, blank, control character or backslash');

export const withoutSlash = (url: string): string => url.replace(/\/+$/, '');

/** Drops empty variables, which count as unset. */
export const onlySet = (variables: Variables): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(variables).filter(([, value]) => value !== undefined && value !== ''));

/**
 * Describes the problem of a variable in one line. Quotes the beginning of its value, unless that may be a secret.
 *
 * @param secrets names of further variables whose values are secrets.
 */
export function problemOf({ path, message }: Pick<z.core.$ZodIssue, 'path' | 'message'>, variables: Variables, secrets: readonly string[] = []): string {
  const name = path.join('.');
  const value = variables[name];
  const isHidden = value === undefined || secrets.includes(name) || mayBeSecret(name, value);
  return `${name}: ${oneLine(message)}${isHidden ? '' : `; it is ${shown(value)}`}`;
}

const MAX_SHOWN = 80;

/** Decides by the name (a webhook's URL often is a key), and by `@`, `?` or `#`, as in a URL with a password or key. */
const mayBeSecret = (name: string, value: string): boolean =>
  /SECRET|PASS|PWD|CREDENTIAL|CONNECTION_STRING|TOKEN|WEBHOOK|KEY(?!CLOAK)/i.test(name) || /[@?#]/.test(value);

const ASSIGNMENT = /^(?:export\s+)?[^\s=]+\s*=/;
const QUOTED_VALUE = /^([ \t]*(?:export[ \t]+)?[^\s=#]+[ \t]*=[ \t]*)(["'`])[^]*?\2/gm;

const shown = (value: string): string =>
  JSON.stringify(value.length > MAX_SHOWN ? `${value.slice(0, MAX_SHOWN)}…` : value);

/**
 * Validates variables with a schema. An empty variable counts as unset.
 *
 * @throws EnvironmentError with one line for each problem.
 */
export function parseVariables<Schema extends z.ZodType>(schema: Schema, variables: Variables): z.infer<Schema> {
  const { found: set, problems } = readSecretFiles(onlySet(variables));
  if (problems.length > 0) throw new EnvironmentError(problems);
  const { success, data, error } = schema.safeParse(set);
  if (!success) throw new EnvironmentError(error.issues.map((issue) => problemOf(issue, set)));
  return data;
}

/**
 * The environment variables of the process, and for missing or empty ones those of the file `.env` in the working
 * directory.
 *
 * @throws EnvironmentError when `.env` exists but can't be read, or has a line that isn't of the form NAME=value.
 */
export const readVariables = (): Variables => ({ ...readDotEnv(), ...onlySet(process.env) });

/** Sets variables that are missing or empty in the process's environment, for a library that reads them there. */
export function supplyVariables(variables: Variables): void {
  for (const [name, value] of Object.entries(variables)) {
    if (value !== undefined && !process.env[name]) process.env[name] = value;
  }
}

function readDotEnv(): Record<string, string | undefined> {
  let text: string;
  try {
    text = readFileSync('.env', 'utf8');
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return {};
    throw new EnvironmentError([`${resolve('.env')}: ${(error as Error).message}`]);
  }
  // A line without NAME=value is refused, because Node skips it or takes it for a part of the next name, depending on
  // Node's version. Nothing of the line is shown, because all of it may be a secret.
  const wrong = lineWithoutAssignment(text);
  if (wrong !== undefined) throw new EnvironmentError([`${resolve('.env')}: line ${wrong} must have the form NAME=value`]);
  return parseEnv(text);
}

function lineWithoutAssignment(text: string): number | undefined {
  const lines = text
    .replace(QUOTED_VALUE, (assignment, name: string) => assignment.replaceAll(/[^\n]/g, '') + name)
    .split('\n')
    .map((line) => line.trim());
  const index = lines.findIndex((line) => line !== '' && !line.startsWith('#') && !ASSIGNMENT.test(line));
  return index < 0 ? undefined : index + 1;
}
