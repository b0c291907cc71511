import { InMemoryUploadEvents } from './in-memory.upload-events.js';
import { uploadEventsContract } from './upload-events.contract.js';

uploadEventsContract('in memory', () => {
  const events = new InMemoryUploadEvents();
  return Promise.resolve({
    events,
    taken: () => Promise.resolve(events.delivered),
    refuse: () => {
      events.failWith(new Error('refused'));
      return Promise.resolve();
    },
    accept: () => {
      events.recover();
      return Promise.resolve();
    },
    tearDown: () => Promise.resolve(),
  });
});
