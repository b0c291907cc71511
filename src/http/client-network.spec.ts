import { describe, expect, it } from 'vitest';
import { clientNetwork } from './client-network.js';

describe('the network of a client', () => {
  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['192.0.2.1:50000', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002::', '2001:db8:1:2::/64'],
    ['[2001:db8:1:2::9]:443', '2001:db8:1:2::/64'],
    ['[2001:db8:1:2::9]', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['1::4:5:6:7:1.2.3.4', '1:0:4:5::/64'],
    ['64:ff9b::192.0.2.1', '64:ff9b:0:0::/64'],
    ['unknown', 'unknown'],
    ['', ''],
  ])('of the address %s is %s', (address, network) => {
    expect(clientNetwork(address)).toBe(network);
  });

  it('is short, whatever address a proxy forwards', () => {
    expect(clientNetwork('x'.repeat(100_000)).length).toBeLessThan(100);
    expect(clientNetwork()).toBe('');
  });
});
