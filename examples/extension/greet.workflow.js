const greeting = await agent({stepId: 'greet', agentRef: 'lead_agent', task: {name: args.name ?? 'reader'}});
return greeting.output;
