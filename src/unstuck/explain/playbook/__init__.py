"""The texts of advice: one function a cause, one file a family of causes."""
