// Repeats one small upload over several connections with autocannon, and prints the outcome as JSON.
import autocannon from 'autocannon';
import { figuresOf } from '../../support/latencies.mjs';

const { url, type, body, connections, warmUpSeconds, seconds, isKeyed } = JSON.parse(process.argv[2]);

async function send(duration, onResponse) {
  // autocannon replaces `[<id>]` by another id in each request.
  const headers = { 'Content-Type': type, ...(isKeyed && { 'Idempotency-Key': '[<id>]' }) };
  // autocannon can end only when it takes a sample of its figures, so it takes samples often (every 100 ms).
  const instance = autocannon({ url, method: 'POST', headers, body, connections, duration, idReplacement: isKeyed, sampleInt: 100 });
  if (onResponse) instance.on('response', onResponse);
  return instance;
}

const latencies = [];
const others = {};
await send(warmUpSeconds);
// Collects the latency of each answer, because autocannon's own histogram has only whole milliseconds.
const { duration, errors } = await send(seconds, (client, status, bytes, milliseconds) => {
  if (status === 200) latencies.push(milliseconds);
  else others[status] = (others[status] ?? 0) + 1;
});
if (errors > 0) others['no answer'] = errors;

console.log(JSON.stringify({ figures: figuresOf(latencies, duration), others }));
