"""The three journeys through the stages: a live job, logs, and what was stored."""
