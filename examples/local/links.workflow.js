// A program looks for links that lead nowhere and leaves a report; a person says what becomes of them.
const found = await agent({ stepId: 'look', agentRef: 'links', task: { pages: args.pages ?? [] } });
const report = await captureArtifact({ stepId: 'report', sourceStepId: 'look', path: 'report.md' });
log(`${found.output.links} links, ${found.output.broken.length} broken`);
if (found.output.broken.length === 0) {
  return { broken: [], report: report.artifactVersion };
}
const verdict = await agent({ stepId: 'verdict', agentRef: 'editor', task: { broken: found.output.broken } });
return { broken: found.output.broken, verdict: verdict.output, report: report.artifactVersion };
