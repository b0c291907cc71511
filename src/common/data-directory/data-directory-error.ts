/**
 * A problem in DATA_DIR that an operator must fix. The message is one line with the path, the problem and, if one is
 * known, the remedy.
 */
export class DataDirectoryError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}
