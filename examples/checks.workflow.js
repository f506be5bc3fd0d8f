// Evidence first, two checks side by side, then at most two reviews of what they found.
// The result is findings for a person to judge: nothing in here says that a product is fine.
const { product = 'Synthetic sample', formula = [], claims = [] } = args;
const list = value => (Array.isArray(value) ? value : []);

const evidence = await agent({
  stepId: 'evidence',
  agentRef: 'lead_agent',
  task: { ask: 'Collect what is documented about this product, with sources.', product, formula, claims },
});

const checks = await parallel([
  () => agent({
    stepId: 'check-formula',
    agentRef: 'lead_agent',
    task: { ask: 'List where formula and evidence disagree.', formula, evidence: evidence.output },
  }),
  () => agent({
    stepId: 'check-claims',
    agentRef: 'lead_agent',
    task: { ask: 'List the claims that the evidence does not carry.', claims, evidence: evidence.output },
  }),
]);
const findings = checks.flatMap(check => list(check.output?.findings));
log(`Two checks, ${findings.length} findings`);

// An answer is only a verdict when it is one of the two words that were asked for.
const verdict = output => (['complete', 'incomplete'].includes(output?.verdict) ? output.verdict : 'unclear');
const ask = 'Are these findings complete? Answer {"verdict": "complete" or "incomplete", "findings": [what is missing]}.';

let reviews = 1;
let review = await agent({ stepId: 'review-1', agentRef: 'lead_agent', task: { ask, findings } });
if (verdict(review.output) === 'incomplete') {
  findings.push(...list(review.output.findings));
  log('The first review asked for more');
  reviews = 2;
  review = await agent({ stepId: 'review-2', agentRef: 'lead_agent', task: { ask, findings } });
}

return {
  product,
  findings,
  reviews,
  review: verdict(review.output),
  next: 'A person decides what these findings mean.',
};
