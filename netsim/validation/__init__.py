"""Accuracy of netsim: cases compared with laws, measurements and other simulators.

A group is a file `GROUP.toml` here and in applications' folders `validation`; its format is in
`netsim.validation.cases`. `netsim validate` runs the cases, `netsim bench --against` another
simulator on the same input.
"""
