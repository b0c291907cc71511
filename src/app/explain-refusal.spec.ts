import { describe, expect, it } from 'vitest';
import { explainRefusal } from './explain-refusal.js';

const coded = (code: string, message: string, more: object = {}): Error => Object.assign(new Error(message), { code, ...more });

describe('explainRefusal', () => {
  it.each<[string, Error, RegExp]>([
    ['the port as the cause when it is in use', coded('EADDRINUSE', 'in use', { syscall: 'listen' }), /^HOST, PORT: in use: end the program that listens there, or set PORT/],
    ['the host as the cause when it is not of this machine', coded('EADDRNOTAVAIL', 'x', { syscall: 'listen' }), /^HOST, PORT: x: set HOST to an address of this machine$/],
    ['the port as the cause when it is reserved', coded('EACCES', 'x', { syscall: 'listen' }), /^HOST, PORT: x: set PORT to 1024 or higher/],
    ['the host as the cause when its name is unknown', coded('ENOTFOUND', 'getaddrinfo ENOTFOUND x', { syscall: 'getaddrinfo' }), /^HOST: getaddrinfo ENOTFOUND x: set HOST to/],
    ['DATA_DIR as the cause of another error of the system', coded('ENOSPC', 'no space left'), /^DATA_DIR: /],
    ['the remedy for a volume that is read-only', coded('EROFS', "read-only file system, mkdir './data/uploads'"), /^DATA_DIR: .*\/data\/uploads.*: mount it for writing, or set DATA_DIR/],
    ['the remedy for too few file descriptors', coded('EMFILE', 'too many open files'), /^DATA_DIR: too many open files.*: let the service open more files \(`ulimit -n`\)$/],
    ['the stack of a package that is missing', coded('ERR_MODULE_NOT_FOUND', "Cannot find package 'x'"), /^Error: Cannot find package 'x'\n {4}at /],
    ['the stack of any other error', new TypeError('a bug'), /^TypeError: a bug\n {4}at /],
  ])('shows %s', (_, error, explanation) => {
    expect(explainRefusal(error, './data')).toMatch(explanation);
  });
});
