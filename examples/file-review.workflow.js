// An Agent writes a report into a file. The file is captured, a person decides about exactly these bytes, and
// only then is another Agent given them.
const { product = 'Synthetic sample', audience = 'the customer' } = args;

const report = await agent({
  stepId: 'report',
  agentRef: 'lead_agent',
  task: { ask: 'Write what is documented about this product into report.md.', product },
});

// From here on the file is what it was at this moment, whatever becomes of the Agent's folder.
const file = await captureArtifact({ stepId: 'report-file', sourceStepId: 'report', path: 'report.md' });

// A quick look before a person's time is spent: at most 16 KiB a read, as base64.
const { data } = await readArtifact({ artifactVersion: file.artifactVersion });
const lines = atob(data).split('\n').filter(line => line.trim() !== '').length;
log(`${file.size} bytes, ${lines} lines that are not empty`);
if (lines < 2) return { product, sent: false, because: 'The report is empty.' };

await humanCheckpoint({ stepId: 'final-report', sourceStepId: 'report-file', artifactVersion: file.artifactVersion });

const letter = await agent({
  stepId: 'letter',
  agentRef: 'lead_agent',
  task: { ask: 'Write a letter that goes with the approved report.', product, audience },
  artifacts: [file.artifactVersion],
});

return { product, sent: true, report: file.sha256, summary: report.output, letter: letter.output };
