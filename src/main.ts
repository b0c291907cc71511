#!/usr/bin/env node
import { requireSupportedNode } from './common/node-version.js';

requireSupportedNode();
const { dispatch } = await import('./commands/dispatch.js');
await dispatch();
