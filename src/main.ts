#!/usr/bin/env node
import { statSync } from 'node:fs';
import type * as commands from './commands/dispatch.js';
import { requireSupportedNode } from './common/node-version.js';

requireSupportedNode();

const changedMs = (path: string): number => statSync(new URL(path, import.meta.url), { throwIfNoEntry: false })?.mtimeMs ?? 0;

// A package has no bundle, and in watch mode the compiler alone runs after a change.
const bundledMs = changedMs('bundle/main.js');
const isBundled = bundledMs > 0 && bundledMs >= changedMs('.tsbuildinfo');
const { dispatch } = (await import(isBundled ? './bundle/main.js' : './commands/dispatch.js')) as typeof commands;
await dispatch();
