"""Acting on a verdict: what to do is a pure plan, every act goes to the ledger first."""
