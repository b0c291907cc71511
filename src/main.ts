#!/usr/bin/env node
import { existsSync, readFileSync } from 'node:fs';
import type * as commands from './commands/dispatch.js';
import { requireSupportedNode } from './common/node-version.js';

requireSupportedNode();

const at = (path: string): URL => new URL(path, import.meta.url);
const isAsBundled = (path: string, copy: string): boolean =>
  !existsSync(at(path)) || (existsSync(at(copy)) && readFileSync(at(path)).equals(readFileSync(at(copy))));

// The bundle is used only if it fits the present build (dist/.tsbuildinfo) and package-lock.json. The npm package has
// no bundle, and watch mode only compiles after a change.
const isBundled = existsSync(at('bundle/main.js')) && isAsBundled('.tsbuildinfo', 'bundle/.tsbuildinfo') && isAsBundled('../package-lock.json', 'bundle/package-lock.json');
const { dispatch } = (await import(isBundled ? './bundle/main.js' : './commands/dispatch.js')) as typeof commands;
await dispatch();
