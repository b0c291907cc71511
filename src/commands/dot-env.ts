const PLAIN = /^[A-Za-z0-9_.:/@%+,~-]+$/;

/**
 * The lines of a `.env` file, in which Node finds the same again; values in quotes where they need them.
 *
 * @throws RangeError for a value that the format has no room for: one with all three kinds of quotes, or more than one line.
 */
export function toDotEnv(variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables)
    .map(([name, value]) => `${name}=${quoted(name, value)}\n`)
    .join('');
}

function quoted(name: string, value: string): string {
  if (PLAIN.test(value)) return value;
  // Between double quotes `\\n` is a line's end.
  const quote = ["'", '`', '"'].find((one) => !value.includes(one) && !(one === '"' && value.includes('\\n')));
  if (quote === undefined || /[\r\n]/.test(value)) throw new RangeError(`${name} can't be written in a .env file.`);
  return quote + value + quote;
}
