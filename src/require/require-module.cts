import { Module } from 'node:module';
import { join } from 'node:path';

/**
 * Loads a module of this package for a caller that uses `require`.
 *
 * Node can require ES modules. Jest's own `require` can't, except with newer versions of Node and
 * `--experimental-vm-modules`. So if `requireHere` fails, this function uses the `require` of Node's class `Module`,
 * which Jest doesn't replace.
 *
 * @param requireHere the `require` of a module in this directory.
 * @param path the module, relative to this directory.
 */
export function requireModule(requireHere: NodeJS.Require, path: string): unknown {
  try {
    return requireHere(path);
  } catch {
    // If the module itself is at fault, this second attempt fails too, and its error is thrown.
    return new Module(__filename).require(join(__dirname, path)) as unknown;
  }
}
