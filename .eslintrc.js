import eslint from '@eslint/js';
import globals from 'globals';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

export default defineConfig(
  // The examples are packages of their own, with their own compilers. The other file is generated.
  { ignores: ['dist/', 'coverage/', 'data/', 'examples/', 'src/client/api-types.ts'] },
  eslint.configs.recommended,
  { rules: { 'no-eval': 'error' } },
  { files: ['**/*.{js,mjs}'], languageOptions: { globals: globals.node } },
  { files: ['src/app/docs/page/*.js', 'test/browser/*.mjs'], languageOptions: { globals: globals.browser } },
  { files: ['test/integration/runners/*.cjs'], languageOptions: { globals: globals.jest } },
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/no-extraneous-class': ['error', { allowWithDecorator: true }],
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
    },
  },
  {
    // Nest declares its options as a class that it doesn't export, so that no caller could construct one.
    files: ['src/app/create-app.ts', 'test/support/service.ts'],
    rules: { '@typescript-eslint/no-unsafe-class-instance-assignment': 'off' },
  },
  {
    // One place reads the environment; everything else gets typed options.
    files: ['src/**/*.ts'],
    ignores: ['src/configuration/variables.ts'],
    rules: {
      'no-restricted-properties': ['error', { object: 'process', property: 'env', message: 'Read it in src/configuration/variables.ts.' }],
    },
  },
);
