"""The fault lab: jobs that go wrong on purpose, real or simulated."""
