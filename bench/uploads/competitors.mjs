import { fileURLToPath } from 'node:url';

const program = (name) => fileURLToPath(new URL(`competitors/${name}.mjs`, import.meta.url));

/**
 * Programs that accept uploads: the service, and those that it is compared with. Each prints its address when it is
 * ready. `variables` are added to the environment that all programs get.
 */
export const SERVICE = { title: 'service', program: fileURLToPath(new URL('../../dist/main.js', import.meta.url)) };
export const SERVICE_LOGGING = { ...SERVICE, title: 'service with a log line a request', variables: { LOG_LEVEL: 'info' } };
export const SERVICE_SILENT = { ...SERVICE, title: 'service with LOG_LEVEL=silent', variables: { LOG_LEVEL: 'silent' } };
export const SERVICE_TRACED = { title: 'service with traces', program: program('traced-service') };
export const SERVICE_SAMPLED = {
  ...SERVICE_TRACED,
  title: 'service with traces of 1 %',
  variables: { OTEL_TRACES_SAMPLER: 'parentbased_traceidratio', OTEL_TRACES_SAMPLER_ARG: '0.01' },
};
export const BARE_STORE = { title: 'bare node:http + our store', program: program('bare-store') };
export const BARE_APPEND = { title: 'bare node:http + append log', program: program('bare-append') };
export const APPEND = { title: 'same app, append + fdatasync', program: program('append') };
export const MULTER = { title: 'Express + multer', program: program('multer') };
export const MULTER_FLUSH = { title: 'Express + multer with flush', program: program('multer'), variables: { FLUSH: 'true' } };
export const STREAMED_FILE = { title: 'bare streamed file + fsync', program: program('streamed-file') };
