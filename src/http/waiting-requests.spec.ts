import { Socket } from 'node:net';
import { expect, it } from 'vitest';
import { WaitingRequests } from './waiting-requests.js';

it('requests of lost connections do not count as waiting', () => {
  const waiting = new WaitingRequests();
  for (let count = 0; count < 10_001; count++) waiting.add(new Socket().destroy());
  const connection = new Socket();
  waiting.add(connection);
  waiting.add(connection);
  expect(connection.destroyed).toBe(false);
});
