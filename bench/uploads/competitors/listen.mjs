/** Lets a server listen on a free port, and prints a ready line like the service. */
export function listen(server) {
  server.listen(0, '127.0.0.1', () => console.log(`Ready: http://127.0.0.1:${server.address().port}`));
}
