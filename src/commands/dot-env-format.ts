const PLAIN = /^[A-Za-z0-9_.:/@%+,~-]+$/;

/**
 * Formats variables as lines of a `.env` file, which Node parses back to the same values. Quotes values if necessary.
 *
 * @throws RangeError for a value that the format can't express: one with a line break; one with all three kinds of
 * quotes; one with single quotes, backticks and a backslash followed by n.
 */
export function toDotEnv(variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables)
    .map(([name, value]) => `${name}=${quoted(name, value)}\n`)
    .join('');
}

function quoted(name: string, value: string): string {
  if (PLAIN.test(value)) return value;
  // Inside double quotes, Node's parser of `.env` files reads a backslash followed by n as a line break.
  const quote = ["'", '`', '"'].find((one) => !value.includes(one) && !(one === '"' && value.includes('\\n')));
  if (quote === undefined || /[\r\n]/.test(value)) throw new RangeError(`${name} can't be written in a .env file.`);
  return quote + value + quote;
}
