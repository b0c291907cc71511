/** The beginning of a NEM12 file; from aguinane/nem-reader, MIT licence. */
export const NEM12_EXAMPLE = [
  '100,NEM12,200402070911,MDA1,Ret1',
  '200,NCDE001111,E1B1Q1E2,1,E1,N1,METSER123,Wh,15,',
  `300,20031204,${Array(96).fill(10).join()},A,,,20031206011132,20031207011022`,
  '900',
  '',
].join('\n');

/** One block of a Green Button file; from GreenButtonAlliance/OpenESPI-Common-java, Apache-2.0 licence. */
export const GREEN_BUTTON_EXAMPLE = `<IntervalBlock xmlns="http://naesb.org/espi">
  <interval><duration>86400</duration><start>1330578000</start></interval>
  <IntervalReading>
    <cost>974</cost>
    <ReadingQuality><quality>8</quality></ReadingQuality>
    <timePeriod><duration>900</duration><start>1330578000</start></timePeriod>
    <value>282</value>
  </IntervalReading>
</IntervalBlock>
`;
