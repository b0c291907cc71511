import { expect, it, vi } from 'vitest';
import { InMemoryEventOutbox } from '../../testing/index.js';
import { MeasuredEventOutbox } from './measured-event-outbox.js';
import { Metrics } from './metrics.js';

it('passes on whether the store has an outbox', async () => {
  const outbox = new MeasuredEventOutbox(new InMemoryEventOutbox(() => Promise.resolve()), new Metrics());
  expect(await outbox.hasBegun()).toBe(false);
  await outbox.open();
  expect(await outbox.hasBegun()).toBe(true);
});

it('passes on that another process may deliver the events', async () => {
  const outbox = new InMemoryEventOutbox(() => Promise.resolve());
  const giveWay = vi.spyOn(outbox, 'giveWay');
  await new MeasuredEventOutbox(outbox, new Metrics()).giveWay();
  expect(giveWay).toHaveBeenCalledOnce();
});
