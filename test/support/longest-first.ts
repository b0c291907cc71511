import { BaseSequencer, type TestSequencerConstructor, type TestSpecification } from 'vitest/node';

/**
 * Orders the spec files so that those that take longest begin first, and none of them runs alone at the end. Vitest
 * orders files by their last durations, but `npm ci` deletes those.
 *
 * @param longest the names of these files up to the first dot, the longest first.
 */
export const longestFirst = (longest: readonly string[]): TestSequencerConstructor =>
  class extends BaseSequencer {
    override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
      const rank = ({ moduleId }: TestSpecification) => {
        const [name = ''] = moduleId.slice(moduleId.lastIndexOf('/') + 1).split('.');
        return longest.includes(name) ? longest.indexOf(name) : longest.length;
      };
      return (await super.sort(files)).sort((one, other) => rank(one) - rank(other));
    }
  };
