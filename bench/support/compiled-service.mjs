// The service from its compiled modules, of which each is a file of its own, unlike in the bundle.
const { dispatch } = await import('../../dist/commands/dispatch.js');
await dispatch();
