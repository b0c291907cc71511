import { isIPv4, isIPv6 } from 'node:net';

/** Some proxies append the port to the address that they forward: `192.0.2.1:50000`, `[2001:db8::1]:50000`. */
const WITH_PORT = /^(?:\[(.*)\]|([^:]*))(?::\d+)?$/;
const MAPPED_IPV4 = /^::ffff:([\d.]+)$/i;
const MAX_LENGTH = 64;

/**
 * The network by which limits identify a client: its IPv4 address, even if that is mapped to IPv6 (`::ffff:192.0.2.1`),
 * or the /64 prefix of its IPv6 address. One host may use a whole /64 (RFC 4291, section 2.5.4).
 *
 * @param address as reported by the connection or a trusted proxy. Of text that isn't an address, at most 64 characters
 * are returned.
 */
export function clientNetwork(address = ''): string {
  const match = WITH_PORT.exec(address);
  const host = match?.[1] ?? match?.[2] ?? address;
  const ipv4 = MAPPED_IPV4.exec(host)?.[1] ?? host;
  if (isIPv4(ipv4)) return ipv4;
  return isIPv6(host) ? `${prefix(host)}::/64` : host.slice(0, MAX_LENGTH);
}

/** The last 32 bits of an IPv6 address, written as an IPv4 address. */
const IPV4_TAIL = /[\d.]*\.[\d.]*$/;
const ZONE = /%.*$/;

function prefix(address: string): string {
  const [head = [], tail] = address.replace(ZONE, '').replace(IPV4_TAIL, '0:0').split('::').map((part) => part.split(':').filter(Boolean));
  const omitted = tail === undefined ? 0 : 8 - head.length - tail.length;
  const groups = [...head, ...Array.from({ length: omitted }, () => '0'), ...(tail ?? [])];
  return groups.slice(0, 4).map((group) => Number.parseInt(group, 16).toString(16)).join(':');
}
