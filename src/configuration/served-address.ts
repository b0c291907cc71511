import { z } from 'zod';
import { EnvironmentError, httpUrl, whole, withoutSlash } from './variables.js';

/** The environment variables that define the service's address. */
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

/** The address of the service, without the port on which it listens. */
export interface ServedAddress {
  readonly host: string;
  /** The prefix of all paths of the service's URLs: empty, or with a leading and no trailing slash. */
  readonly basePath: string;
  /** The URL under which clients reach the service, without a trailing slash. Undefined if PUBLIC_URL isn't set. */
  readonly publicUrl: string | undefined;
}

/**
 * The service's address according to the variables HOST, BASE_PATH and PUBLIC_URL.
 *
 * @throws EnvironmentError when the path of PUBLIC_URL doesn't end with BASE_PATH.
 */
export function servedAddress({ HOST: host, BASE_PATH: basePath, PUBLIC_URL: publicUrl }: Omit<Served, 'PORT'>): ServedAddress {
  if (publicUrl !== undefined && !new URL(publicUrl).pathname.endsWith(basePath)) {
    throw new EnvironmentError(['PUBLIC_URL: must end with BASE_PATH']);
  }
  return { host, basePath, publicUrl };
}

/**
 * PUBLIC_URL; if that isn't set, the URL of HOST, `port` and BASE_PATH. Without a trailing slash. `port` is the port
 * that the service listens on.
 */
export const baseUrl = ({ host, basePath, publicUrl }: ServedAddress, port: number): string =>
  publicUrl ?? `${origin(host, port)}${basePath}`;

/**
 * The path of the URL under which clients reach the service, without a trailing slash. It may be longer than BASE_PATH,
 * because a proxy in front of the service may add a prefix.
 */
export const publicPath = ({ publicUrl, basePath }: ServedAddress): string =>
  publicUrl === undefined ? basePath : new URL(publicUrl).pathname.replace(/\/$/, '');

/** The service's origin, `http://host:port`, with an IPv6 address in brackets. */
export const origin = (host: string, port: number): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`;

/** Addresses at which this machine reaches a service that listens on all addresses. */
const LOOPBACK: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' };

/**
 * The URL of the service for a client on the same machine, without a trailing slash. If the service listens on all
 * addresses (HOST is `0.0.0.0` or `::`), the URL contains the loopback address.
 */
export const localUrl = ({ host, basePath }: ServedAddress, port: number): string =>
  `${origin(LOOPBACK[host] ?? host, port)}${basePath}`;
