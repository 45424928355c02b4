"""Kernels: functions of tensors, and nothing above them."""
