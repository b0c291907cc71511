import { readFile } from 'node:fs/promises';

/** Linux counts the time of processors in hundredths of a second (`USER_HZ`). */
const TICKS_PER_SECOND = 100;

/** The processor time that processes have used since their start, in seconds, as Linux reports it. */
export async function processorSeconds(pids) {
  const times = await Promise.all(pids.map(secondsOf));
  return times.reduce((sum, seconds) => sum + seconds, 0);
}

async function secondsOf(pid) {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  // The fields begin after the name of the program, which may contain spaces and parentheses itself.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [user, system] = [fields[11], fields[12]].map(Number);
  return (user + system) / TICKS_PER_SECOND;
}

/** The time that all processors of the machine have worked since its start, in seconds. */
export async function machineSeconds() {
  const [, user, nice, system, , , interrupts, softInterrupts] = /^cpu +(.*)$/m.exec(await readFile('/proc/stat', 'utf8'))[0].split(/ +/).map(Number);
  return (user + nice + system + interrupts + softInterrupts) / TICKS_PER_SECOND;
}
