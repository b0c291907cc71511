import { z } from 'zod';
import { EnvironmentError, httpUrl, whole, withoutSlash } from './variables.js';

export const SERVED_VARIABLES = {
  HOST: z.string().regex(/^[A-Za-z0-9.:_-]+$/, 'must be an address or a host name').default('127.0.0.1'),
  PORT: whole(3000, 0, 65_535),
  BASE_PATH: z
    .string()
    .regex(/^(\/(?!\.{1,2}(\/|$))[A-Za-z0-9._~-]+)+$/, 'must begin with "/" and not end with it, of letters, digits and . _ ~ -')
    .default(''),
  PUBLIC_URL: httpUrl.transform(withoutSlash).optional(),
};

type Served = z.infer<z.ZodObject<typeof SERVED_VARIABLES>>;

export interface ServedAddress {
  readonly host: string;
  /** The BASE_PATH: empty, or with a leading and no trailing slash. */
  readonly basePath: string;
  /** The PUBLIC_URL without a trailing slash; undefined if it isn't set. */
  readonly publicUrl: string | undefined;
}

/**
 * The service's host, BASE_PATH and PUBLIC_URL.
 *
 * @throws EnvironmentError when the path of PUBLIC_URL doesn't end with BASE_PATH.
 */
export function servedAddress({ HOST: host, BASE_PATH: basePath, PUBLIC_URL: publicUrl }: Omit<Served, 'PORT'>): ServedAddress {
  if (publicUrl !== undefined && !new URL(publicUrl).pathname.endsWith(basePath)) {
    throw new EnvironmentError(['PUBLIC_URL: must end with BASE_PATH']);
  }
  return { host, basePath, publicUrl };
}

/** The service's URL for clients, without a trailing slash: PUBLIC_URL, or else that of HOST, `port` and BASE_PATH. */
export const baseUrl = ({ host, basePath, publicUrl }: ServedAddress, port: number): string =>
  publicUrl ?? `${origin(host, port)}${basePath}`;

/**
 * The path of the service's URL for clients, without a trailing slash. May be longer than BASE_PATH, because a proxy in
 * front of the service may add a prefix.
 */
export const publicPath = ({ publicUrl, basePath }: ServedAddress): string =>
  publicUrl === undefined ? basePath : new URL(publicUrl).pathname.replace(/\/$/, '');

/** The service's origin, `http://host:port`, with an IPv6 address in brackets. */
export const origin = (host: string, port: number): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`;

const LOOPBACK: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' };

/** The service's URL for a client on the same machine, without a trailing slash. */
export const localUrl = ({ host, basePath }: ServedAddress, port: number): string =>
  `${origin(LOOPBACK[host] ?? host, port)}${basePath}`;
