import { expect, it, vi } from 'vitest';
import { InMemoryEventOutbox } from '../../testing/index.js';
import { MeasuredEventOutbox } from './measured-event-outbox.js';
import { Metrics } from './metrics.js';

it('passes on that another process may deliver the events', async () => {
  const outbox = new InMemoryEventOutbox(() => Promise.resolve());
  const giveWay = vi.spyOn(outbox, 'giveWay');
  await new MeasuredEventOutbox(outbox, new Metrics()).giveWay();
  expect(giveWay).toHaveBeenCalledOnce();
});
